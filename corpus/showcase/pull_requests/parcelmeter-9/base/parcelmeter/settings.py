"""Settings from the environment, see docs/configuration.md."""

from pydantic import BaseSettings, Field


class Settings(BaseSettings):
    northpost_token: str = Field("", env="NORTHPOST_TOKEN")
    quickship_token: str = Field("", env="QUICKSHIP_TOKEN")
    timeout: float = 5.0
    currency: str = "EUR"

    class Config:
        env_prefix = "PARCELMETER_"
        env_file = "parcelmeter.ini.env"
