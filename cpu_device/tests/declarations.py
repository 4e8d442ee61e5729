"""Prints a program in C for library.bats that is compiled with NVIDIA's headers: it compiles only if they declare all that the
headers of the CPU device declare, with the same types and values. With --errors, prints a program that prints the text of
each error."""
import re
import sys

NAMES = ["cuda_runtime.h", "cublas_v2.h", "cublasLt.h", "nccl.h"]
INCLUDES = "".join(f"#include <{name}>\n" for name in ["cublas_v2.h", "cublasLt.h", "cuda_runtime.h", "nccl.h"])
# The version of an installed NCCL may be another one; ncclTimeout exists since 2.30.
OTHERS = "NCCL_MINOR|NCCL_PATCH|NCCL_VERSION_CODE|CUDART_VERSION|ncclTimeout|ncclNumResults"


def read():
    text = "\n".join(open("include/" + name).read() for name in NAMES)
    text = re.sub(r"//.*", "", text)
    return re.sub(r"\w+ cpuDeviceMalloc\(.*?\);", "", text, flags=re.S)


def values(text):
    yield from re.findall(rf"\b(?!{OTHERS})(\w+) = (-?\w+)[ ,\n]", text)
    yield from re.findall(rf"#define (?!{OTHERS})(\w+) (-?\d\w*|INT_MIN)\n", text)


def check(condition, name):
    print(f'_Static_assert({condition}, "{name}");')


def print_declarations(text):
    for name, value in values(text):
        check(f"(long)({name}) == {value}", name)
    # A second declaration must agree with the first one, but there must be a first one.
    for declaration, name in re.findall(r"^((?:const )?\w+ \*?(\w+)\([^{}#]*?\);)", text, re.M):
        check(f"sizeof(&{name}) > 0", name)
        print(declaration)
    for name in re.findall(r"^__typeof__\(\w+\) (\w+);", text, re.M):
        check(f"__builtin_types_compatible_p(__typeof__({name}), __typeof__({name[1:]}))", name)
    # A struct of NVIDIA may have more members.
    for tag, members, alias in re.findall(r"(struct \w*|typedef struct \w*) ?\{(.*?)\} ?(\w*);", text, re.S):
        theirs = alias or tag
        ours = "struct our_" + theirs.replace("struct ", "")
        print(f"{ours} {{{members}}};")
        for member in re.findall(r"(\w+)(?:\[\w+\])?[,;]", members):
            types = [f"__typeof__((({type} *)0)->{member})" for type in (theirs, ours)]
            check(f"__builtin_types_compatible_p({', '.join(types)})", f"{theirs} {member}")


def print_errors(text):
    print("#include <stdio.h>\nint main(void) {")
    for form, prefix in [("cudaGetErrorName", "cuda(Success|Error)"), ("cudaGetErrorString", "cuda(Success|Error)"),
                         ("cublasGetStatusName", "CUBLAS_STATUS"), ("cublasGetStatusString", "CUBLAS_STATUS"),
                         ("ncclGetErrorString", "nccl(Success|InProgress|.*(Error|Argument|Usage)$)")]:
        codes = [name for name, _ in values(text) if re.match(prefix, name)]
        for code in codes + ["12345"]:
            print(f'printf("%s(%d): %s\\n", "{form}", (int){code}, {form}({code}));')
    print("}")


print(INCLUDES)
(print_errors if "--errors" in sys.argv else print_declarations)(read())
