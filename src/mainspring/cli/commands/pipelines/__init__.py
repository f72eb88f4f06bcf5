"""Commands on pipeline files and folders: validate, plan, deploy, import, init."""
