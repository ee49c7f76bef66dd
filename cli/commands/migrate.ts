import { migrate } from "../../db/migrate.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { OPERATOR, REASON, actorOf } from "../command.ts";
import type { Define } from "../command.ts";

export const defineMigrateCommand: Define = (command, cli) => {
  command
    .option(...REASON)
    .option(...OPERATOR)
    .action(async (operator) => {
      const { ownerUrl, appUrl } = await cli.connections.databaseRoles();
      const migrator = actorOf(operator);
      const { applied } = await migrate(ownerUrl, { appUrl, migrator, onWait: cli.say });
      cli.printResult({ applied }, () => applied.forEach(cli.printText));
      cli.say(
        applied.length === 0
          ? "The schema is up to date."
          : `Applied ${counted(applied.length, "migration")}.`,
      );
    });
};
