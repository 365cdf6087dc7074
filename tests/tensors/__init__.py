"""What needs torch, in a process of its own: unit tests check that nothing else imports it."""
