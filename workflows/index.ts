export { donation } from "./donation.ts";
export { plantingGathering } from "./plantingGathering.ts";
export { plantingOrder } from "./plantingOrder.ts";
export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { usageSender } from "./usageSender.ts";
