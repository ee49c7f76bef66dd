import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** The migrations of this release. */
const MIGRATIONS = fileURLToPath(new URL("migrations/", import.meta.url));

export type Migration = {
  readonly number: number;
  readonly name: string;
  readonly text: string;
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

/** A line such as `-- @runs-with 0001`. */
const DIRECTIVE = /^-- @(?<name>\S+)(?: (?<value>\S+))?$/gmu;

const readRunsWith = (file: string, number: number, text: string): number => {
  let runsWith = number;
  for (const { groups: { name, value = "" } = {} } of text.matchAll(DIRECTIVE)) {
    if (name !== "runs-with") {
      throw new Error(`${file} has the unknown directive @${name}.`);
    }
    runsWith = Number(value);
    if (!/^\d{4}$/u.test(value) || runsWith >= number) {
      throw new Error(`${file}: @runs-with must be the number of an earlier migration.`);
    }
  }
  return runsWith;
};

/** Reads the migrations of a folder, in their order. */
export const readMigrations = async (folder = MIGRATIONS): Promise<readonly Migration[]> => {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).toSorted();
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(`${folder}/${file}`, "utf8");
      const number = Number.parseInt(file, 10);
      return {
        number,
        name: file.replace(/\.sql$/u, ""),
        text,
        runsWith: readRunsWith(file, number, text),
        checksum: checksumOf(text),
      };
    }),
  );
};
