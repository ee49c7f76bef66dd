export { donation } from "./donation.ts";
export { plantingOrder } from "./plantingOrder.ts";
export { plantingOrderCreation } from "./plantingOrderCreation.ts";
export { processorEvents } from "./processorEvents.ts";
export { reconciliation } from "./reconciliation.ts";
export { refund } from "./refund.ts";
export { subscriptionSweep } from "./subscriptionSweep.ts";
export { usageSender } from "./usageSender.ts";
