import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** The migrations of this release. */
const MIGRATIONS = fileURLToPath(new URL("migrations/", import.meta.url));

export type Migration = {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  /** Whether it is one transaction. Otherwise it is one statement that cannot be part of one. */
  readonly isTransaction: boolean;
  /**
   * The newest migration that a release must know to run with this one. Its own number if only releases that know it run
   * with it.
   */
  readonly runsWith: number;
  /** A digest of the statements. Comments and white space do not change it. */
  readonly checksum: string;
};

const checksumOf = (text: string): string =>
  createHash("sha256")
    .update(text.replaceAll(/--.*$/gmu, "").replaceAll(/\s+/gu, " ").trim())
    .digest("hex");

/** `-- @name value`, in the comment at the beginning of a file. */
const DIRECTIVE = /^-- @(?<name>\S+)(?: (?<value>\S+))?$/u;

const readDirectives = (file: string, text: string): ReadonlyMap<string, string> => {
  const directives = new Map<string, string>();
  for (const line of text.split("\n")) {
    if (!line.startsWith("--")) {
      break;
    }
    const { name, value = "" } = DIRECTIVE.exec(line)?.groups ?? {};
    if (name !== undefined) {
      directives.set(name, value);
    }
  }
  for (const name of directives.keys()) {
    if (name !== "no-transaction" && name !== "runs-with") {
      throw new Error(`${file} has the unknown directive @${name}.`);
    }
  }
  return directives;
};

const readRunsWith = (file: string, number: number, value: string | undefined): number => {
  if (value === undefined) {
    return number;
  }
  if (!/^\d{4}$/u.test(value) || Number(value) >= number) {
    throw new Error(`${file}: @runs-with must be the number of an earlier migration.`);
  }
  return Number(value);
};

/** Reads the migrations of a folder, in their order. */
export const readMigrations = async (folder = MIGRATIONS): Promise<readonly Migration[]> => {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).toSorted();
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(`${folder}/${file}`, "utf8");
      const directives = readDirectives(file, text);
      const number = Number.parseInt(file, 10);
      return {
        number,
        name: file.replace(/\.sql$/u, ""),
        text,
        isTransaction: !directives.has("no-transaction"),
        runsWith: readRunsWith(file, number, directives.get("runs-with")),
        checksum: checksumOf(text),
      };
    }),
  );
};
