from kit.model_server import model_server

__all__ = ["model_server"]
