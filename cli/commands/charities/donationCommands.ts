import type { Command } from "commander";
import { parseId, parseRecordId, parseLimit, parseMode } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { recordOwnerOption } from "../../accountOptions.ts";
import type { ListOptions } from "./listOrgDonations.ts";
import { listOrgDonations } from "./listOrgDonations.ts";
import type { ShowOptions } from "./showDonation.ts";
import { showDonation } from "./showDonation.ts";

export const addDonationCommands = (donation: Command, context: CliContext): void => {
  donation
    .command("list")
    .description("List an organization's donations, newest first")
    .requiredOption("--org <id>", "id of the organization", parseId)
    .option("--mode <live|test>", "mode of the donations", parseMode, "live")
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action((options: ListOptions) => listOrgDonations(context, options));
  donation
    .command("show")
    .description("Show a donation and its refund")
    .argument("<id>", "id of the donation", parseRecordId)
    .addOption(recordOwnerOption())
    .action((id: string, options: ShowOptions) => showDonation(context, id, options));
};
