/** Each command of tenants and satellites prints its result as text, too. Those that need a worker are in golden.worker.test.ts. */
import { expect, test } from 'vitest'
import { useGolden, withoutWorker } from './golden.fixture.ts'

const here = useGolden()

/** Their result is a list of findings: where there are none, standard output is empty. */
const DIAGNOSES = ['billing:doctor', 'tenant:audit:verify']

test.each(withoutWorker)('%s, as text', async (name, one) => {
  const text = await here.text(here.runner.api, name, one)
  expect(text === '').toBe(DIAGNOSES.includes(name))
})
