import { readFile, stat } from "node:fs/promises";
import type { Cli } from "../command.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { unreadableFileError } from "./openInput.ts";

/** No secret is longer; more is another file. */
const MAXIMUM_BYTES = 4096;

const readStdin = async ({ io: { stdin }, say }: Cli): Promise<string> => {
  if (stdin.isTTY === true) {
    // No other secret is read from standard input.
    say("Type the API key, then press Enter.");
  }
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    chunks.push(bytes);
    length += bytes.length;
    // A terminal stays open after the line.
    if (length > MAXIMUM_BYTES || bytes.includes("\n")) {
      break;
    }
  }
  return Buffer.concat(chunks).toString();
};

const readPrivateFile = async (path: string): Promise<string> => {
  try {
    const { mode, size } = await stat(path);
    if ((mode & 0o077) !== 0) {
      throw invalidRequest(
        `Other users can read ${path}. Run chmod 600 on it, and replace the secret, because it may have been read.`,
      );
    }
    if (size > MAXIMUM_BYTES) {
      throw invalidRequest(`${path} is too large for a file with one secret.`);
    }
    return await readFile(path, "utf8");
  } catch (error) {
    throw error instanceof DomainError ? error : unreadableFileError(path, error);
  }
};

/** Reads a secret from a private file or from standard input, because a command line is visible to others. */
export const readSecret = async (cli: Cli, path: string | undefined): Promise<string> => {
  const text = path === undefined ? await readStdin(cli) : await readPrivateFile(path);
  const [secret = "", ...rest] = text.split("\n");
  if (rest.some((line) => line.trim() !== "")) {
    throw invalidRequest("Give one secret on one line.");
  }
  return secret.replace(/\r$/u, "");
};
