/** What a delivery worker is given. */
import type { Egress } from '../../../kernel/egress/egress.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { Claimed, DeliveryQueue, Settled, Settlement } from '../queue/queue.ts'
import type { ReleasedClaims } from '../queue/released-claims.ts'

export interface WorkerOptions {
  /** Requests on their way at once. */
  readonly concurrency: number
  /** Deliveries that are held at once. */
  readonly claim: number
  /** On their way at once over all processes, to one subscription and of one tenant. */
  readonly perSubscription: number
  readonly perTenant: number
  readonly timeoutMs: number
  readonly maxAttempts: number
  /** Only for this subscription, and to this address: somebody listens. */
  readonly listener?: { readonly webhookId: string; readonly url: string }
  /** Default: `DEFAULT_TIMING`. */
  readonly timing?: Partial<WorkerTiming>
}

/** Intervals of a worker; tests shorten them. */
export interface WorkerTiming {
  /** How often a worker looks for deliveries that nothing has woken it for. */
  readonly idleLookMs: number
  /** A receiver that takes longer is slow. */
  readonly slowMs: number
  /** How long requests may take to end when the worker stops. */
  readonly stopMs: number
}

export const DEFAULT_TIMING: WorkerTiming = { idleLookMs: 5_000, slowMs: 2_000, stopMs: 4_000 }

/** What a delivery worker asks and tells whoever has it. */
export interface WorkerDependencies {
  readonly kernel: Kernel
  readonly queue: DeliveryQueue
  readonly releasedClaims: ReleasedClaims
  readonly egress: Egress
  secretsOf(delivery: Claimed): readonly string[]
  /** @param together settles it with whatever else is to be settled now; rejects when it cannot be */
  settle(settlement: Settlement, together: () => Promise<Settled>): Promise<void>
}
