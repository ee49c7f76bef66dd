import { migrate } from "../../db/migrate.ts";
import { counted } from "../../runtime/counted.rules.ts";
import type { Define } from "../command.ts";
import { actorOf, withAudit } from "../operator.ts";
import { printText } from "../output/print.ts";

export const defineMigrateCommand: Define = (command, { io, connections, printResult, say }) => {
  withAudit(command).action(async (operator) => {
    const { ownerUrl, appUrl } = await connections.databaseRoles();
    const { applied } = await migrate(ownerUrl, {
      appUrl,
      migrator: actorOf(operator),
      onWait: say,
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
