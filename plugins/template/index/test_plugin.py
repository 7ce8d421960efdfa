"""The back end holds to the contract of all back ends: every answer equals a scan."""

from __future__ import annotations

from kglink.testing import IndexBackendContract


class TestScan(IndexBackendContract):
    """Run by pytest: every check of the contract."""

    plugin = "myvendor/myplugin"
