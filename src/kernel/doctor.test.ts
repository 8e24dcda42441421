import { describe, expect, test } from 'vitest'
import { type Diagnosis, Doctor, type Finding, type Severity } from './doctor.ts'
import { DependencyUnavailable } from './errors.ts'
import { createLogger } from './logger.ts'

const finding = (severity: Severity, code: string, more: Partial<Finding> = {}): Finding => ({
  severity,
  code,
  message: `about ${code}`,
  remedy: 'mend it',
  ...more,
})
const finds = (name: string, ...findings: readonly Finding[]): Diagnosis => ({
  name,
  summary: '',
  examine: () => findings,
})
const never = new Promise<never>(() => {})

const examined = (diagnoses: readonly Diagnosis[], options: Parameters<Doctor['examine']>[0] = {}) => {
  const doctor = new Doctor(createLogger({ level: 'silent' }))
  for (const diagnosis of diagnoses) doctor.register(diagnosis, 'the service')
  return doctor.examine(options)
}
const codes = async (report: ReturnType<typeof examined>) => (await report).checks.map(({ code }) => code)

describe('the status', () => {
  test.each<[string, Finding[], string]>([
    ['nothing is found', [], 'ok'],
    ['what is found is for information', [finding('info', 'a.b')], 'ok'],
    ['there is a warning', [finding('info', 'a.b'), finding('warn', 'a.c')], 'warn'],
    ['there is an error', [finding('warn', 'a.c'), finding('error', 'a.d'), finding('info', 'a.b')], 'error'],
  ])('when %s', async (_, findings, status) => {
    expect((await examined([finds('one', ...findings)])).status).toBe(status)
  })
})

test('findings carry the name of their diagnosis, the worst first, and are not fixable unless they say so', async () => {
  const report = await examined([
    finds('one', finding('info', 'one.i'), finding('error', 'one.e', { tenantId: 'acme' })),
    finds('two', finding('error', 'two.e', { fixable: true }), finding('warn', 'two.w')),
  ])
  expect(report.checks).toEqual([
    { ...finding('error', 'one.e'), name: 'one', fixable: false, tenantId: 'acme' },
    { ...finding('error', 'two.e'), name: 'two', fixable: true },
    { ...finding('warn', 'two.w'), name: 'two', fixable: false },
    { ...finding('info', 'one.i'), name: 'one', fixable: false },
  ])
})

test('a diagnosis is given its service, and whether to prove', async () => {
  const seen: unknown[] = []
  const diagnosis: Diagnosis = {
    name: 'one',
    summary: '',
    examine: (service, { prove }) => {
      seen.push([service, prove])
      return []
    },
  }
  await examined([diagnosis])
  await examined([diagnosis], { prove: true })
  expect(seen).toEqual([
    ['the service', false],
    ['the service', true],
  ])
})

describe('never silence', () => {
  const failing = (error: unknown): Diagnosis => ({
    name: 'one',
    summary: '',
    async *examine() {
      yield finding('warn', 'one.before')
      throw error
    },
  })

  test('a diagnosis that fails is an error beside what it found before, in words that tell nothing', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED db.internal:5432'), { code: 'ECONNREFUSED' })
    const { status, checks } = await examined([failing(refused), finds('two', finding('info', 'two.i'))])
    expect(status).toBe('error')
    expect(checks).toMatchObject([
      { name: 'one', code: 'doctor.not-examined', message: '"one" could not be examined: connection refused' },
      { name: 'one', code: 'one.before' },
      { name: 'two', code: 'two.i' },
    ])
    expect((await examined([failing(new Error('password "x" is wrong'))])).checks[0]?.message).not.toContain('password')
    expect((await examined([failing(DependencyUnavailable('The store is away.'))])).checks[0]?.message).toContain(
      'The store is away.',
    )
  })

  test('also one that fails before it begins', async () => {
    const examine = () => {
      throw new Error('no')
    }
    expect(await codes(examined([{ name: 'one', summary: '', examine }]))).toEqual(['doctor.not-examined'])
  })

  test('one that takes too long is an error too, and is left; the others are told', async () => {
    let told: AbortSignal | undefined
    const slow: Diagnosis = {
      name: 'slow',
      summary: '',
      timeoutMs: 20,
      async *examine(_, { signal }) {
        told = signal
        yield finding('warn', 'slow.before')
        await never
      },
    }
    expect((await examined([slow, finds('two', finding('info', 'two.i'))])).checks).toMatchObject([
      { name: 'slow', severity: 'error', code: 'doctor.timed-out', message: expect.stringContaining('within 20 ms') },
      { code: 'slow.before' },
      { code: 'two.i' },
    ])
    expect(told?.aborted).toBe(true)
  })
})

test('who asks may leave, and is told why', async () => {
  const leaving = new AbortController()
  const waiting: Diagnosis = {
    name: 'one',
    summary: '',
    async *examine() {
      leaving.abort(new Error('gone'))
      yield await never
    },
  }
  await expect(examined([waiting], { signal: leaving.signal })).rejects.toThrow('gone')
})

test('of many findings of a kind some are told, and how many more there are', async () => {
  const many = Array.from({ length: 1_000 }, (_, index) => finding('warn', 'one.w', { tenantId: `t${index}` }))
  const { checks } = await examined([finds('one', finding('error', 'one.e'), ...many)])
  expect(checks).toHaveLength(52)
  expect(checks.at(-1)).toEqual({
    name: 'one',
    severity: 'warn',
    code: 'one.w',
    message: 'and 950 more of this kind',
    remedy: 'mend it',
    fixable: false,
  })
})
