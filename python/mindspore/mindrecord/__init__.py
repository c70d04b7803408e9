"""Files of rows, as `.mindrecord` and the `.db` with their index beside it."""

from .._missing import missing
from .files import FileReader, FileWriter, MindPage

SUCCESS, FAILED = "MSRStatus.SUCCESS", "MSRStatus.FAILED"
__getattr__ = missing("mindspore.mindrecord", globals())
