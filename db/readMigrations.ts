import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const MIGRATIONS = fileURLToPath(new URL("migrations/", import.meta.url));

export type Migration = {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  /**
   * The newest migration that a release must know to run with this one, from a line such as `-- @runs-with 0001`. Its own
   * number if only releases that know it run with it.
   */
  readonly runsWith: number;
  /** A digest of the statements. Comments and white space do not change it. */
  readonly checksum: string;
};

const checksumOf = (text: string): string =>
  createHash("sha256")
    .update(text.replaceAll(/--.*$/gmu, "").replaceAll(/\s+/gu, " ").trim())
    .digest("hex");

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
        runsWith: Number(/^-- @runs-with (\d{4})$/mu.exec(text)?.[1] ?? number),
        checksum: checksumOf(text),
      };
    }),
  );
};
