/** The driver database-pg in a process of its own, for tests that kill it or want another one's eyes. */
import { createLogger } from '../../kernel/logger.ts'
import type { Place, Placement } from '../../tenants/isolation.ts'
import type { TenantMigration } from '../../tenants/migrations.ts'
import { serveParent } from '../../testing/child.ts'
import { databasePg } from './database-pg.ts'

export interface ProcessOptions {
  readonly installation: string
  readonly placement: Placement
  readonly migrations: readonly TenantMigration[]
}

export type Question =
  | { readonly what: 'provision'; readonly place: Place }
  /** Answers what the statement does, or fails with its code. */
  | { readonly what: 'execute'; readonly place: Place; readonly text: string }

await serveParent(async ({ installation, placement, migrations }: ProcessOptions) => {
  const driver = databasePg()
  await driver.start({
    installation,
    placements: new Map([['main', placement]]),
    migrations,
    generation: () => 0,
    log: createLogger({ level: 'silent' }),
  })
  return async (question: Question) => {
    if (question.what === 'provision') return driver.provision(question.place)
    const { rows } = await driver.execute(question.place, { text: question.text })
    return rows
  }
})
