import { migrate } from "../../db/migrate.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { unusableDatabaseError } from "../../db/openDatabase.ts";
import type { Define } from "../command.ts";
import { isUnreachable } from "../exitCodes.ts";
import { actorOf, withAudit } from "../operator.ts";
import { printText } from "../output/print.ts";

export const defineMigrateCommand: Define = (command, { io, connections, printResult, say }) => {
  withAudit(command).action(async (operator) => {
    const { ownerUrl, appUrl } = await connections.databaseRoles();
    const { applied } = await migrate(ownerUrl, {
      appUrl,
      migrator: actorOf(operator),
      onWait: say,
    }).catch((error: unknown) => {
      const setting = ownerUrl === appUrl ? "DATABASE_URL" : "DATABASE_OWNER_URL";
      throw error instanceof Error && isUnreachable(error)
        ? unusableDatabaseError(ownerUrl, setting, error)
        : error;
    });
    printResult({ applied }, () => {
      for (const name of applied) {
        printText(io, name);
      }
    });
    say(
      applied.length === 0
        ? "The schema is up to date."
        : `Applied ${counted(applied.length, "migration")}.`,
    );
  });
};
