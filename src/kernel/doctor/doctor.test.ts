import { describe, expect, test } from 'vitest'
import { DependencyUnavailable } from '../base/errors.ts'
import { createLogger } from '../base/logger.ts'
import { type Diagnosis, Doctor, type Finding, type FixOptions, type Severity } from './doctor.ts'

const finding = (severity: Severity, code: string, more: Partial<Finding> = {}): Finding => ({
  severity,
  code,
  message: `about ${code}`,
  remedy: 'repair it',
  ...more,
})
const finds = (name: string, ...findings: readonly Finding[]): Diagnosis => ({
  name,
  summary: '',
  examine: () => findings,
})
const never = new Promise<never>(() => {})

const doctorWith = (diagnoses: readonly Diagnosis[]) => {
  const doctor = new Doctor(createLogger({ level: 'silent' }))
  for (const diagnosis of diagnoses) doctor.register(diagnosis, 'the service')
  return doctor
}
const examined = (diagnoses: readonly Diagnosis[], options: Parameters<Doctor['examine']>[0] = {}) =>
  doctorWith(diagnoses).examine(options)
const codes = async (report: ReturnType<typeof examined>) => (await report).checks.map(({ code }) => code)

describe('the status', () => {
  test.each<[string, Finding[], string]>([
    ['there is no finding', [], 'ok'],
    ['there is only a finding for information', [finding('info', 'a.b')], 'ok'],
    ['there is a warning', [finding('info', 'a.b'), finding('warn', 'a.c')], 'warn'],
    ['there is an error', [finding('warn', 'a.c'), finding('error', 'a.d'), finding('info', 'a.b')], 'error'],
  ])('when %s', async (_, findings, status) => {
    expect((await examined([finds('one', ...findings)])).status).toBe(status)
  })
})

test('findings have the name of their diagnosis, are sorted by severity, and by default are not fixable', async () => {
  const report = await examined([
    finds('one', finding('info', 'one.i'), finding('error', 'one.e', { tenantId: 'acme' })),
    {
      ...finds('two', finding('error', 'two.e', { fixable: true }), finding('warn', 'two.w')),
      fix: async () => 'done',
    },
    finds('three', finding('info', 'three.i', { fixable: true })),
  ])
  expect(report.checks).toEqual([
    { ...finding('error', 'one.e'), name: 'one', fixable: false, tenantId: 'acme' },
    { ...finding('error', 'two.e'), name: 'two', fixable: true },
    { ...finding('warn', 'two.w'), name: 'two', fixable: false },
    { ...finding('info', 'one.i'), name: 'one', fixable: false },
    { ...finding('info', 'three.i'), name: 'three', fixable: false }, // without a fix
  ])
})

test('a diagnosis receives its service and the option to prove', async () => {
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

describe('incomplete diagnoses', () => {
  const failing = (error: unknown): Diagnosis => ({
    name: 'one',
    summary: '',
    async *examine() {
      yield finding('warn', 'one.before')
      throw error
    },
  })

  test('a failed diagnosis is an error without details, in addition to its earlier findings', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED db.internal:5432'), { code: 'ECONNREFUSED' })
    const { status, checks } = await examined([failing(refused), finds('two', finding('info', 'two.i'))])
    expect(status).toBe('error')
    expect(checks).toMatchObject([
      { name: 'one', code: 'doctor.not-examined', message: '"one" could not be examined: connection refused' },
      { name: 'one', code: 'one.before' },
      { name: 'two', code: 'two.i' },
    ])
    expect((await examined([failing(new Error('password "x" is wrong'))])).checks[0]?.message).not.toContain('password')
    expect(
      (await examined([failing(DependencyUnavailable('The store is unavailable.'))])).checks[0]?.message,
    ).toContain('The store is unavailable.')
  })

  test('a diagnosis that fails before it begins is an error, too', async () => {
    const examine = () => {
      throw new Error('no')
    }
    expect(await codes(examined([{ name: 'one', summary: '', examine }]))).toEqual(['doctor.not-examined'])
  })

  test('a diagnosis that exceeds its time is an error and is abandoned; the others are reported', async () => {
    let receivedSignal: AbortSignal | undefined
    const slow: Diagnosis = {
      name: 'slow',
      summary: '',
      timeoutMs: 20,
      async *examine(_, { signal }) {
        receivedSignal = signal
        yield finding('warn', 'slow.before')
        await never
      },
    }
    expect((await examined([slow, finds('two', finding('info', 'two.i'))])).checks).toMatchObject([
      {
        name: 'slow',
        severity: 'error',
        code: 'doctor.timed-out',
        message: expect.stringContaining('exceeded its time limit of 20 ms'),
      },
      { code: 'slow.before' },
      { code: 'two.i' },
    ])
    expect(receivedSignal?.aborted).toBe(true)
  })
})

test('examine rejects with the reason of its signal', async () => {
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

test('at most four diagnoses run concurrently', async () => {
  let running = 0
  let most = 0
  const full = Promise.withResolvers<void>()
  const ends = Array.from({ length: 10 }, () => Promise.withResolvers<void>())
  const waiting = ends.map(
    ({ promise }, index): Diagnosis => ({
      name: `d${index}`,
      summary: '',
      async *examine() {
        running += 1
        most = Math.max(most, running)
        if (running === 4) full.resolve()
        await promise
        running -= 1
        yield finding('info', `d${index}.i`)
      },
    }),
  )
  const report = examined(waiting)
  await full.promise
  for (const { resolve } of ends) resolve()
  expect((await report).checks.map(({ code }) => code)).toEqual(waiting.map(({ name }) => `${name}.i`))
  expect(most).toBe(4)
})

test('many findings of a kind are reported in part, with the number of the others', async () => {
  const many = Array.from({ length: 1_000 }, (_, index) => finding('warn', 'one.w', { tenantId: `t${index}` }))
  const { checks, counts } = await examined([finds('one', finding('error', 'one.e'), ...many)])
  expect(checks).toHaveLength(52)
  expect(counts).toEqual({ error: 1, warn: 1_000, info: 0 })
  expect(checks.at(-1)).toEqual({
    name: 'one',
    severity: 'warn',
    code: 'one.w',
    message: 'and 950 more of this kind',
    remedy: 'repair it',
    fixable: false,
  })
})

describe('fixing', () => {
  const yes = async () => true

  /** Lamps that are out, and can be lit, except broken ones. */
  function lamps(...out: readonly string[]) {
    const dark = new Set(out)
    const calls: unknown[] = []
    const diagnosis: Diagnosis = {
      name: 'lamps',
      summary: '',
      *examine() {
        for (const lamp of dark) {
          yield finding('warn', 'lamps.out', {
            message: `${lamp} is out`,
            fixable: true,
            subject: lamp,
            tenantId: lamp,
          })
        }
        yield finding('info', 'lamps.old', { subject: 'all' })
      },
      async fix(service, { subject, code }, { prove }) {
        calls.push([service, subject, code, prove])
        if (String(subject).startsWith('broken')) throw new Error('secret words of the server')
        if (subject === 'away') throw DependencyUnavailable('The house is unavailable.')
        dark.delete(String(subject))
        return `${subject} is lit`
      },
    }
    return { diagnosis, dark, calls }
  }

  test('fix fixes findings one after the other and reports the remaining ones', async () => {
    const { diagnosis, calls } = lamps('a', 'b')
    const reported: string[] = []
    const asked: unknown[] = []
    const report = await doctorWith([diagnosis, finds('two', finding('error', 'two.e'))]).fix({
      approve: async (fixable) => {
        expect(calls).toEqual([])
        asked.push(...fixable)
        return true
      },
      onFix: ({ message }) => reported.push(message),
    })
    expect(report).toEqual({
      status: 'error',
      checks: [
        { ...finding('error', 'two.e'), name: 'two', fixable: false },
        { ...finding('info', 'lamps.old'), name: 'lamps', fixable: false },
      ],
      counts: { error: 1, warn: 0, info: 1 },
      fixes: ['a', 'b'].map((lamp) => ({
        name: 'lamps',
        code: 'lamps.out',
        message: `${lamp} is out`,
        tenantId: lamp,
        isDone: true,
        outcome: `${lamp} is lit`,
      })),
    })
    expect(calls).toEqual(['a', 'b'].map((lamp) => ['the service', lamp, 'lamps.out', false]))
    expect(reported).toEqual(['a is out', 'b is out'])
    expect(asked).toMatchObject([{ message: 'a is out', fixable: true }, { message: 'b is out' }])
    expect(JSON.stringify([report, asked])).not.toContain('subject')
  })

  test('a failed fix is reported without details, and the others continue', async () => {
    const { diagnosis } = lamps('broken', 'away', 'a')
    const { fixes, checks, status } = await doctorWith([diagnosis]).fix({ approve: yes })
    expect(fixes).toMatchObject([
      { message: 'broken is out', isDone: false, outcome: expect.not.stringContaining('secret') },
      { message: 'away is out', isDone: false, outcome: 'The house is unavailable.' },
      { message: 'a is out', isDone: true },
    ])
    expect(status).toBe('warn')
    expect(checks).toMatchObject([{ message: 'broken is out' }, { message: 'away is out' }, { code: 'lamps.old' }])
  })

  test('fix changes nothing without approval, and asks for none without fixable findings', async () => {
    const { diagnosis, dark, calls } = lamps('a')
    const declined = await doctorWith([diagnosis]).fix({ approve: async () => false })
    expect(declined).toMatchObject({ status: 'warn', checks: [{ message: 'a is out' }, {}], fixes: [] })
    await expect(doctorWith([diagnosis]).fix({ approve: () => Promise.reject(new Error('no')) })).rejects.toThrow('no')
    expect(calls).toEqual([])
    dark.clear()
    const approve = () => expect.fail('asked about nothing')
    expect(await doctorWith([diagnosis]).fix({ approve })).toMatchObject({ status: 'ok', fixes: [] })
  })

  test('fix fixes all findings, not only the reported ones', async () => {
    const { diagnosis, calls } = lamps(...Array.from({ length: 120 }, (_, index) => `lamp ${index}`))
    const { fixes } = await doctorWith([diagnosis]).fix({ prove: true, approve: yes })
    expect(fixes).toHaveLength(120)
    expect(calls).toHaveLength(120)
    expect(calls[119]).toEqual(['the service', 'lamp 119', 'lamps.out', true])
  })

  test('fix ends between two fixes when its signal aborts', async () => {
    const { diagnosis, calls } = lamps('a', 'b')
    const leaving = new AbortController()
    const options: FixOptions = { approve: yes, signal: leaving.signal, onFix: () => leaving.abort(new Error('gone')) }
    await expect(doctorWith([diagnosis]).fix(options)).rejects.toThrow('gone')
    expect(calls).toHaveLength(1)
  })
})
