export { donation } from "./donation.ts";
export { plantingOrderCreation } from "./plantingOrderCreation.ts";
export { plantingOrder } from "./plantingOrder.ts";
export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { usageSender } from "./usageSender.ts";
