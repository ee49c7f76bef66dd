import { relative, resolve } from "node:path";

const quoted = (word: string): string =>
  /^[\w./@:-]+$/u.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** Returns how a command of the CLI starts in the folder of the service, for the data in a folder. */
export const impactCommand = (dataDir: string): string => {
  const inside = relative("", dataDir);
  const folder = inside.startsWith("..") ? resolve(dataDir) : inside;
  return `${folder === ".data" ? "" : `DATA_DIR=${quoted(folder)} `}npm run -s impact --`;
};
