/** Starts runners on a separate database, each as in its own process. */
import { afterAll, afterEach, beforeAll, inject } from 'vitest'
import { z } from 'zod'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { type Attempt, type JobType, jobType, type QueueCounts, type Recurring } from '../../kernel/jobs/jobs.ts'
import { kernelPart } from '../../kernel/parts.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { PgBossJobs } from './pg-boss.ts'

const Data = z.object({ n: z.number() })

export type Handle = (data: z.output<typeof Data>, attempt: Attempt) => Promise<unknown>

export interface Runners {
  readonly database: Database
  readonly url: string
  /** Works if handlers are given; otherwise only sends. */
  start(
    types: readonly JobType[],
    handlers?: Readonly<Record<string, Handle>>,
    schedule?: readonly Recurring[],
    options?: {
      /** Default: true for a runner with handlers. */
      readonly keep?: boolean
    },
  ): Promise<PgBossJobs>
  rows(text: string): Promise<any[]>
  countsOf(type: JobType): Promise<QueueCounts[]>
}

export const type = (name: string, more: Partial<JobType> = {}) => jobType({ name, summary: '', data: Data, ...more })

/** For one test file: after each test, the runners are stopped, and all jobs and schedules are removed. */
export function useRunners(): Runners {
  const log = createLogger({ level: 'silent' })
  let created: TestDatabase
  let database: Database
  const started: PgBossJobs[] = []

  beforeAll(async () => {
    created = await createTestDatabase(inject('postgresUrl'))
    database = new Database({ url: created.url }, log)
    await migrate(database, [{ part: 'kernel', migrations: kernelPart.tables ?? [] }])
  })
  afterEach(async () => {
    if (started.length === 0) return // the tables of the queue exist only after the first start of a runner
    await Promise.all(started.splice(0).map((runner) => runner.stop(10_000)))
    await database.sql('delete from multitenancy_jobs.job')
    await database.sql('delete from multitenancy_jobs.schedule')
  })
  afterAll(async () => {
    await database.close()
    await created.drop()
  })

  return {
    get database() {
      return database
    },
    get url() {
      return created.url
    },
    async start(types, handlers, schedule = [], { keep = handlers !== undefined } = {}) {
      const runner = new PgBossJobs(database, log)
      started.push(runner)
      const kept = Object.entries(handlers ?? {}).map(
        ([name, handle]) => [name, async (data: any, attempt: Attempt) => void (await handle(data, attempt))] as const,
      )
      await runner.start({ types, handlers: new Map(kept), schedule }, { work: handlers !== undefined, keep })
      return runner
    },
    rows: async (text) => (await database.sql(text)).rows,
    async countsOf({ name }) {
      const counts = await started.at(-1)?.counts()
      return (counts ?? []).filter(({ queue }) => queue === `tenantry.${name}`)
    },
  }
}
