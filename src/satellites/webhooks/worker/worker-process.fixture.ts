/** A process with its own tenancy on a given database, for tests that kill it. Role `worker` sends; role `api` only runs commands. */
import { serveParent } from '../../../../test/support/child.ts'
import { schemaPg } from '../../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { createTenancy } from '../../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { type WebhooksOptions, webhooks } from '../index.ts'
import { type ClaimOptions, DeliveryQueue } from '../queue/queue.ts'
import { DEVELOPMENT } from '../webhooks.fixture.ts'

export interface WorkerOptions {
  readonly url: string
  readonly role: 'worker' | 'api'
  readonly webhooks: WebhooksOptions
}

export type ProcessCommand = { readonly claim: ClaimOptions } | { readonly dispatch: string; readonly number: number }

await serveParent(async ({ url, role, webhooks: options }: WorkerOptions) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    satellites: [webhooks(options)],
    egress: DEVELOPMENT,
    role,
    logger: createLogger({ level: 'silent' }),
  })
  const queue = new DeliveryQueue(tenancy.kernel.database, tenancy.kernel.clock)
  return async (command: ProcessCommand) => {
    if ('claim' in command) return queue.claim(command.claim)
    return tenancy.webhooks.dispatch(command.dispatch, 'order.paid', { number: command.number })
  }
})
