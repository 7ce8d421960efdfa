"""Texts as people have them: pages, mails and office files, each as one document."""
