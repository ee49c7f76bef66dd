import type { Check } from "../check.ts";
import { charitySearchChecks } from "./standalone/charitySearch.ts";
import { dashboardChecks } from "./standalone/dashboard.ts";
import { donateChecks } from "./standalone/donate.ts";
import { donationListChecks, donationRefundChecks } from "./standalone/donationList.ts";
import { evidenceChecks } from "./standalone/evidence.ts";
import { keyChecks, rateLimitChecks } from "./standalone/keys.ts";
import { listChecks } from "./standalone/lists.ts";
import { refundChecks } from "./standalone/refunds.ts";
import { registerChecks } from "./standalone/register.ts";
import { KINDS } from "./standalone/registrations.ts";
import { statsChecks, storeDonationChecks } from "./store/donationsAndStats.ts";
import { storeEvidenceChecks } from "./store/storeEvidence.ts";
import { storeKeyChecks } from "./store/storeKeys.ts";
import { storeListChecks } from "./store/storeLists.ts";
import { budgetChecks, storeRefundChecks } from "./store/storeRefunds.ts";
import { storeIdempotencyChecks, storeWriteChecks } from "./store/writes.ts";

export const STANDALONE_CHECKS: readonly Check[] = [
  ...keyChecks,
  ...KINDS.flatMap((kind) => registerChecks(kind)),
  ...KINDS.flatMap((kind) => listChecks(kind)),
  ...KINDS.flatMap((kind) => refundChecks(kind)),
  ...evidenceChecks,
  ...charitySearchChecks,
  ...donateChecks,
  ...donationListChecks,
  ...donationRefundChecks,
  ...dashboardChecks,
  ...rateLimitChecks,
];

export const STORE_CHECKS: readonly Check[] = [
  ...storeKeyChecks,
  ...KINDS.flatMap((kind) => storeWriteChecks(kind)),
  ...KINDS.flatMap((kind) => storeListChecks(kind)),
  ...storeDonationChecks,
  ...statsChecks,
  ...storeRefundChecks,
  ...storeIdempotencyChecks,
  ...storeEvidenceChecks,
  ...budgetChecks,
];
