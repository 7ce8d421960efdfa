"""What every plugin of a kind must hold to, one file per kind.

A plugin author subclasses a contract in a test module; pytest then runs its ``test_`` methods::

    class TestMyFormat(KBAdapterContract):
        plugin = "acme/my-format"
        source_text = "..."
        expected = (Entity("1", "Ada"),)
"""
