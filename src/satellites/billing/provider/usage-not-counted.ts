/**
 * A report of usage that has certainly not counted: the provider has answered that it does not take it, or it has never left. Of one that
 * failed otherwise nobody knows whether it counts. Thrown by `Payments.reportUsage`.
 */
import { PaymentError } from '../model/provider.ts'

export class UsageNotTaken extends PaymentError {}
