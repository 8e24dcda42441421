/** A participant of the races in races.fixture.ts: carries out one action on a tenant and reports its outcome. */

import { recorded } from '../../../test/support/recorded.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy, type Tenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import type { Action } from '../tenant/lifecycle.ts'

export interface RaceStep {
  readonly id: string
  readonly action: Action
}

export interface Outcome {
  /** The response to the caller; `nothing` for an installation. */
  readonly response: 'changed' | 'repeat' | 'rejected' | 'nothing'
  /** Audit entries and events of this racer. */
  readonly published: readonly string[]
}

export interface Racer {
  run(step: RaceStep): Promise<Outcome>
  stop(): Promise<void>
}

const WRONG = [{ name: '0001_wrong', checksum: '', up: 'select 1 / 0' }]

export async function openRacer(url: string): Promise<Racer> {
  const open = async (migrations: typeof WRONG) => {
    const tenancy = await createTenancy({
      database: { url },
      appKey: TEST_APP_KEY,
      isolation: [schemaPg()],
      migrations,
      role: 'api',
      logger: createLogger({ level: 'silent' }),
    })
    return { tenancy, published: recorded(tenancy) }
  }
  const able = await open([])
  /** Its installations fail in a migration. */
  const unable = await open(WRONG)
  return {
    async run({ id, action }) {
      const { tenancy, published } = action === 'fail' ? unable : able
      const response = await act(tenancy, id, action)
      return { response, published: published.of(id) }
    },
    async stop() {
      await able.tenancy.stop()
      await unable.tenancy.stop()
    },
  }
}

async function act({ tenants }: Tenancy, id: string, action: Action): Promise<Outcome['response']> {
  if (action === 'install' || action === 'fail') {
    await tenants.installation.install(id, { isLast: true })
    return 'nothing'
  }
  try {
    const { changed } = await tenants[action](id)
    return changed ? 'changed' : 'repeat'
  } catch (error) {
    if ((error as { code?: string }).code !== 'E_TENANT_STATE') throw error
    return 'rejected'
  }
}
