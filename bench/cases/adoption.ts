/**
 * Benchmark of the adoption of existing schemas, each with its plan, against the statements of these plans: as one text
 * for each schema, and one statement after the other.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Tenancy } from '../../src/index.ts'
import { forEachConcurrent } from '../../src/kernel/base/concurrency.ts'
import { alternate, type Bench, type Result, timed } from '../measure.ts'
import { FIVE_TABLES, migrations, withTenancy } from '../tenancy.ts'

const GOAL = 0.5
/** Each side of a round needs new schemas, whose creation takes longer than their adoption. */
const ROUNDS = 3
const IN_FLIGHT = 4
const CONCURRENT = `adoption of a plan, ${IN_FLIGHT} in flight`
const digestOf = ({ digest }: { readonly digest: string }) => ({ digest })

export const adoption = {
  name: 'adoption',
  run: ({ postgresUrl, quick, say }: Bench): Promise<Result[]> =>
    withTenancy(postgresUrl, (tenancy, url) => measured(say, tenancy, url, quick ? 10 : 40)),
}

async function measured(say: Bench['say'], { tenants }: Tenancy, url: string, count: number): Promise<Result[]> {
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  const role = `legacy_${randomBytes(4).toString('hex')}`
  await owner.query(`create role ${role}; grant ${role} to current_user`)
  const request = (id: string) => ({
    id,
    isolation: 'schema-pg',
    schema: `legacy_${id}`,
    baseline: migrations.at(-1)?.name ?? '',
  })
  let round = 0
  const made = async (): Promise<string[]> => {
    const ids = Array.from({ length: count }, (_, n) => `r${round}_${n}`)
    round++
    for (const id of ids) {
      await owner.query(`begin; create schema legacy_${id}; alter schema legacy_${id} owner to ${role}; set local role ${role};
        set local search_path = legacy_${id}; ${FIVE_TABLES}; commit`)
    }
    return ids
  }
  const side = (what: string, work: (ids: readonly string[]) => Promise<unknown>) => async () => {
    const ids = await made()
    const perSecond = (count / (await timed(() => work(ids)))) * 1_000
    say(`${what}: ${Math.round(perSecond)}/s`)
    return perSecond
  }
  /** The statements are known before the clock starts. */
  const bare = (what: string, run: (statements: readonly string[]) => Promise<unknown>) => async () => {
    const plans: (readonly string[])[] = []
    for (const id of await made()) plans.push((await tenants.adoptions.plan(request(id))).statements)
    const perSecond =
      (count /
        (await timed(async () => {
          for (const statements of plans) await run(statements)
        }))) *
      1_000
    say(`${what}: ${Math.round(perSecond)}/s`)
    return perSecond
  }
  try {
    const planned = (what: string, inFlight: number) => async () => {
      const requests: Parameters<Tenancy['tenants']['adoptions']['adopt']>[0][] = []
      for (const id of await made())
        requests.push({ ...request(id), ...(await tenants.adoptions.plan(request(id)).then(digestOf)) })
      const work = () =>
        forEachConcurrent(requests, inFlight, async (one) => {
          await tenants.adoptions.adopt(one)
        })
      const perSecond = (count / (await timed(work))) * 1_000
      say(`${what}: ${Math.round(perSecond)}/s`)
      return perSecond
    }
    const { adopted, executed, concurrent, text, single } = await alternate(ROUNDS, {
      executed: planned('adoption of a plan', 1),
      concurrent: planned(CONCURRENT, IN_FLIGHT),
      adopted: side('plan and adoption', async (ids) => {
        for (const id of ids) {
          const { digest } = await tenants.adoptions.plan(request(id))
          await tenants.adoptions.adopt({ ...request(id), digest })
        }
      }),
      single: bare('statements', async (statements) => {
        await owner.query('begin')
        for (const statement of statements) await owner.query(statement)
        await owner.query('commit')
      }),
      text: bare('one text', (statements) => owner.query(`begin; ${statements.join(';')}; commit`)),
    })
    const result = (name: string, ours: number, against: string, reference: number) => ({
      name: `${name}, schema-pg, 5 tables`,
      against,
      unit: 'schemas/s',
      ours,
      reference,
      ratio: ours / reference,
    })
    const loop = 'the same statements in a loop, one transaction for each schema'
    const texts = 'the same statements in a loop, one text for each schema'
    return [
      { ...result('adoption of a plan', executed, loop, single), goal: GOAL },
      result(CONCURRENT, concurrent, loop, single),
      result('adoption of a plan', executed, texts, text),
      result('plan and adoption', adopted, loop, single),
    ]
  } finally {
    await owner.query(`drop owned by ${role} cascade`)
    await owner.query(`drop role ${role}`)
    await owner.end()
  }
}
