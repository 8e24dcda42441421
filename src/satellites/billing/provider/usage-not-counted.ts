/**
 * A usage report that has certainly not counted: the provider rejected it, or it never left. After any other failure it
 * is unknown whether the report counts. Thrown by `Payments.reportUsage`.
 */
import { PaymentError } from '../model/provider.ts'

export class UsageNotTaken extends PaymentError {}
