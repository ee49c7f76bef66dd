import { open } from "node:fs/promises";
import { CommandError, EXIT } from "../exitCodes.ts";
import { unreadableFileError } from "./unreadableFileError.ts";

/** Reads a whole file, and never more than its maximum, also of a file that has no end. */
export const readSmallFile = async (path: string, maximumBytes: number): Promise<Buffer> => {
  let bytes: Buffer;
  try {
    const file = await open(path);
    try {
      const buffer = Buffer.alloc(maximumBytes + 1);
      let length = 0;
      for (let read = 1; read > 0 && length < buffer.length; length += read) {
        read = (await file.read(buffer, length)).bytesRead;
      }
      bytes = buffer.subarray(0, length);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw unreadableFileError(path, error);
  }
  if (bytes.length > maximumBytes) {
    throw new CommandError(EXIT.usage, `${path} is larger than ${maximumBytes / 1024 / 1024} MiB.`);
  }
  return bytes;
};
