"""A command of a rollout: its words (`template`), its run (`running`), the processes that it starts (`processes`)."""
