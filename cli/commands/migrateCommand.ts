import type { Command } from "commander";
// oxlint-disable-next-line architecture/imports -- migrating is not a use case of a service.
import { migrate } from "../../db/migrate.ts";
import type { Context } from "../context.ts";
import { say } from "../io.ts";
import { printJson } from "../output/print.ts";

export const addMigrateCommand = (program: Command, { io, connections }: Context): void => {
  program
    .command("migrate")
    .description("Migrate the database to this release; safe to repeat")
    .option("--json", "JSON output")
    .action(async ({ json }: { readonly json?: true }) => {
      const { applied } = await migrate(await connections.databaseUrl());
      if (json) {
        printJson(io, { applied });
        return;
      }
      for (const name of applied) {
        io.stdout.write(`${name}\n`);
      }
      say(
        io,
        applied.length === 0
          ? "The schema is up to date."
          : `Applied ${applied.length} migrations.`,
      );
    });
};
