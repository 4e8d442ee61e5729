"""Drives Chromium for the tests of pages and slides, through chromedriver and the WebDriver protocol
(https://www.w3.org/TR/webdriver2/).

    with Browser(1280, 720) as browser:
        browser.open("build/diffs/diff12.html")
        browser.press("n")
        print(browser.run("return scrollY"), browser.messages())
        browser.picture("page.png")
"""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
           "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
           "--disable-breakpad", "--hide-scrollbars", "--force-device-scale-factor=1"]


class Browser:
    def __init__(self, width, height):
        self.size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}

    def __enter__(self):
        self.folder = tempfile.mkdtemp()  # Chromium keeps all its files here
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "HOME": self.folder, "TMPDIR": self.folder})
        line = next(each for each in self.driver.stdout if "started successfully on port" in each)
        self.url = "http://127.0.0.1:" + re.search(r"port (\d+)", line)[1] + "/session"
        chrome = {"args": OPTIONS + [f"--user-data-dir={self.folder}/profile"], "binary": shutil.which("chromium")}
        answer = self.call("", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.url += "/" + answer["sessionId"]
        self.devtools("Emulation.setDeviceMetricsOverride", self.size)
        return self

    def __exit__(self, *_):
        try:
            self.call("", None, "DELETE")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, path, content, method="POST"):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def devtools(self, command, parameters):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, path):
        self.call("/url", {"url": path if "://" in path else "file://" + os.path.abspath(path)})

    def run(self, script, *arguments):
        """Runs the body of a JavaScript function in the page, and returns its result."""
        return self.call("/execute/sync", {"script": script, "args": arguments})

    def press(self, *keys):
        """Presses and releases these keys: characters, or the codes of WebDriver, such as "\\ue014" for the right arrow."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def messages(self):
        """The errors and warnings that the console has shown since the last call, without those of Chromium's own first
        page, which is a tab before the first open()."""
        messages = (entry["message"] for entry in self.call("/se/log", {"type": "browser"}))
        return [message for message in messages if not message.startswith("chrome://")]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("/screenshot", None, "GET")))
