"""torchrun, with what is wrong in Debian's torch 1.13 mended; later versions are as they are."""
import torch.distributed.run
from torch.distributed.elastic.multiprocessing.api import Std

# Python 3.11 no longer finds Std.NONE among the members of this enum, and no command line works.
if Std.from_str("0") is None:
    Std.from_str = classmethod(lambda cls, text: cls(int(text)))

# --standalone always meets at port 29400, where another run on this machine may be; later it is any port.
elastic_launch = torch.distributed.run.elastic_launch


def launch(config, entrypoint):
    if config.rdzv_endpoint == "localhost:29400":
        config.rdzv_endpoint = "localhost:0"
    return elastic_launch(config=config, entrypoint=entrypoint)


torch.distributed.run.elastic_launch = launch
torch.distributed.run.main()
