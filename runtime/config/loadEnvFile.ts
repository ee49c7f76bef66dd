import { statSync } from "node:fs";

// Loaded by the npm scripts and the launcher of `impact` only, because tests must not depend on a developer's .env. Node's
// --env-file-if-exists would report a missing file on every start.

const file = statSync(".env", { throwIfNoEntry: false });

/** The owner of the file decides which database a command changes. */
const trusted = [process.getuid?.(), 0, Number(process.env["SUDO_UID"])];

if (file !== undefined) {
  // Windows has no owners.
  if (process.getuid !== undefined && !trusted.includes(file.uid)) {
    process.stderr.write(
      "The file .env in this folder belongs to another user, so it is not used. Run the command in another folder, or own the file.\n",
    );
    process.exit(1);
  }
  process.loadEnvFile();
}
