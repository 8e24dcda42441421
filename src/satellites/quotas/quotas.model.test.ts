/** Random sequences of quota calls, plan changes and midnights against a model of ten lines. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openQuotas, PLANS, type QuotasOpened, STORES } from './quotas.fixture.ts'

const QUOTAS = ['exports', 'seats', 'none', 'pages'] as const
const RUNS = 25

class Model {
  plan: keyof typeof PLANS.definitions = 'free'
  today: Record<string, number> = {}
  gauges: Record<string, number> = {}
  limit = (quota: string): number =>
    (PLANS.definitions[this.plan].limits as Record<string, number>)[quota] ?? Number.POSITIVE_INFINITY
  used = (quota: string): number => this.today[quota] ?? 0
  fits = (quota: string, amount: number): boolean => amount === 0 || this.used(quota) + amount <= this.limit(quota)
  add(quota: string, amount: number): number {
    if (amount > 0) this.today[quota] = this.used(quota) + amount
    return this.used(quota)
  }
}

type Step =
  | { readonly do: 'track' | 'consume'; readonly quota: string; readonly amount: number }
  | { readonly do: 'consumeAll'; readonly wanted: readonly { quota: string; amount: number }[] }
  | { readonly do: 'burst'; readonly quota: string; readonly callers: number }
  | { readonly do: 'setUsage'; readonly quota: string; readonly value: number }
  | { readonly do: 'reset'; readonly quota: string | undefined }
  | { readonly do: 'plan'; readonly plan: Model['plan'] }
  | { readonly do: 'midnight' }

const quota = fc.constantFrom(...QUOTAS)
const amount = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 120 }))
const wanted = fc.uniqueArray(fc.record({ quota, amount }), {
  minLength: 1,
  maxLength: 4,
  selector: (one) => one.quota,
})
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('track', 'consume'), quota, amount }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('consumeAll'), wanted }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('burst'), quota, callers: fc.integer({ min: 2, max: 20 }) }) },
  fc.record({ do: fc.constant('setUsage'), quota, value: fc.constantFrom(0, 1, 2.5, 1_000) }),
  fc.record({ do: fc.constant('reset'), quota: fc.option(quota, { nil: undefined }) }),
  fc.record({ do: fc.constant('plan'), plan: fc.constantFrom('free', 'pro', 'open') }),
  fc.record({ do: fc.constant('midnight') }),
) as fc.Arbitrary<Step>

describe.each(STORES)('a random sequence of quota calls on the store %s', (store) => {
  let all: QuotasOpened
  beforeAll(async () => {
    all = await openQuotas(store)
  })
  afterAll(() => all.opened.end())

  test('a random sequence of quota calls has the results of the model', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const tenant = await all.tenant()
        const model = new Model()
        for (const one of steps) {
          expect(await really(all, tenant, one), JSON.stringify(one)).toEqual(modelled(model, one))
          const { usage } = await all.opened.tenancy.quotas.snapshot(tenant)
          for (const name of QUOTAS) expect(usage[name] ?? 0).toBe(model.today[name] ?? model.gauges[name] ?? 0)
        }
      }),
      { numRuns: RUNS },
    )
  })
})

/** Result of a step: the usage, `rejected`, or the number of admitted calls of a burst. */
async function really(all: QuotasOpened, tenant: string, step: Step): Promise<unknown> {
  const { quotas, tenants } = all.opened.tenancy
  const orRefused = (result: Promise<unknown>) =>
    result.catch((error) => {
      if (error.code === 'E_TENANT_QUOTA_EXCEEDED') return 'refused'
      throw error
    })
  switch (step.do) {
    case 'track':
      return quotas.track(tenant, step.quota, step.amount)
    case 'consume':
      return orRefused(quotas.consume(tenant, step.quota, step.amount))
    case 'consumeAll':
      return orRefused(quotas.consumeAll(tenant, step.wanted))
    case 'burst': {
      const decided = await Promise.all(Array.from({ length: step.callers }, () => quotas.decide(tenant, step.quota)))
      return decided.filter(({ allowed }) => allowed).length
    }
    case 'setUsage':
      return quotas.setUsage(tenant, step.quota, step.value)
    case 'reset':
      return orNotFound(quotas.reset(tenant, step.quota))
    case 'plan':
      return void (await tenants.setPlan(tenant, step.plan))
    case 'midnight':
      return all.toTomorrow()
  }
}

function modelled(model: Model, step: Step): unknown {
  switch (step.do) {
    case 'track':
      return model.add(step.quota, step.amount)
    case 'consume':
      return model.fits(step.quota, step.amount) ? model.add(step.quota, step.amount) : 'refused'
    case 'consumeAll':
      if (!step.wanted.every(({ quota, amount }) => model.fits(quota, amount))) return 'refused'
      return step.wanted.map(({ quota, amount }) => model.add(quota, amount))
    case 'burst': {
      const admitted = Math.max(0, Math.min(step.callers, model.limit(step.quota) - model.used(step.quota)))
      model.add(step.quota, admitted)
      return admitted
    }
    case 'setUsage':
      model.gauges[step.quota] = step.value
      return undefined
    case 'reset':
      for (const name of step.quota === undefined ? QUOTAS : [step.quota]) {
        delete model.today[name]
        delete model.gauges[name]
      }
      return undefined
    case 'plan':
      model.plan = step.plan
      return undefined
    case 'midnight':
      model.today = {}
      return undefined
  }
}

/** No plan limits `pages`: a reset without a count responds with 404. */
async function orNotFound(reset: Promise<void>): Promise<void> {
  try {
    await reset
  } catch (error) {
    if ((error as { code?: string }).code !== 'E_QUOTA_NOT_FOUND') throw error
  }
}
