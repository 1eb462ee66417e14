from crb_cli.main import run

run()
