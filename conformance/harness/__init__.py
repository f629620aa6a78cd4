"""What the runners of foreign suites share: a server under test, and an account of results.

Every runner is a script of its own folder (`conformance/NAME/run.py`). It starts what it needs on ephemeral ports of loopback in a temporary
folder, stops it by its process id, and leaves nothing behind. The last line that it prints is its account:

    NAME: 12 passed, 0 failed, 3 skipped

Skipped counts the tests that an expected-result list names as known failures; each has its reason there.
"""
from .account import Account
from .mounts import mounted
from .rust import rust_failure
from .servers import SUBSYSTEM, TARGET, Linerate, Tgt, linerate_binary, temporary_folder

__all__ = ["SUBSYSTEM", "TARGET", "Account", "Linerate", "Tgt", "linerate_binary", "mounted", "rust_failure", "temporary_folder"]
