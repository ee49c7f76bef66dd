import type { Command } from "@commander-js/extra-typings";
import { migrate } from "../../db/migrate.ts";
import { counted } from "../../runtime/counted.rules.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { actorOf, withAudit } from "../operator.ts";
import { printResult, printText } from "../output/print.ts";

export const defineMigrateCommand = (command: Command, { io, connections }: CliContext): void => {
  withAudit(command).action(async (operator) => {
    const { ownerUrl, appUrl } = await connections.databaseRoles();
    const { applied } = await migrate(ownerUrl, {
      appUrl,
      migrator: actorOf(operator),
      onWait: (message) => say(io, message),
    });
    printResult(io, { applied }, () => {
      for (const name of applied) {
        printText(io, name);
      }
    });
    say(
      io,
      applied.length === 0
        ? "The schema is up to date."
        : `Applied ${counted(applied.length, "migration")}.`,
    );
  });
};
