/**
 * Checks that each command of tenants and satellites prints text. Commands that need a worker are in
 * golden.worker.test.ts.
 */
import { expect, test } from 'vitest'
import { useGolden, withoutWorker } from './golden.fixture.ts'

const here = useGolden()

/** Commands that print findings: without findings, standard output is empty. */
const DIAGNOSES = ['attention:list', 'billing:doctor', 'tenant:audit:verify']

test.each(withoutWorker)('%s prints text', async (name, one) => {
  const text = await here.text(here.runner.api, name, one)
  expect(text === '').toBe(DIAGNOSES.includes(name))
})
