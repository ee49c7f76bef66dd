import type { Command } from "@commander-js/extra-typings";
import { migrate } from "../../db/migrate.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { unusableDatabaseError } from "../../db/openDatabase.ts";
import type { CliContext } from "../context.ts";
import { isUnreachable } from "../exitCodes.ts";
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
    }).catch((error: unknown) => {
      const setting = ownerUrl === appUrl ? "DATABASE_URL" : "DATABASE_OWNER_URL";
      throw error instanceof Error && isUnreachable(error)
        ? unusableDatabaseError(ownerUrl, setting, error)
        : error;
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
