export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { usageSender } from "./usageSender.ts";
