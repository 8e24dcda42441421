/** The constraints of fields in a real browser: those that the fast tests of forms assume. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { FieldRules, Rules } from '../../../src/console/api/contract.ts'
import inputs from '../../../src/console/api/inputs.json' with { type: 'json' }
import { launchBrowser } from '../../support/browser.ts'
import { STEP_LIMIT_MS } from '../console.fixture.ts'
import { accepts, attributesOf, isChecked, NUMBER, textsFor } from './constraints.fixture.ts'

const SAMPLES = { numRuns: 60, seed: 20_260_102 }

interface Case {
  readonly attributes: Readonly<Record<string, string>>
  readonly text: string
  readonly isAccepted: boolean
}

/** A browser checks lengths of typed text only, so the values of a script have lengths within the limits. */
const isWithin = ({ minLength = 0, maxLength = Infinity }: FieldRules, { length }: string): boolean =>
  length >= minLength && length <= maxLength

test('a browser accepts and rejects values by the attributes of a field as assumed', {
  timeout: STEP_LIMIT_MS,
}, async () => {
  const rules = Object.values(inputs as unknown as Record<string, Rules>).flatMap((fields) => Object.values(fields))
  const cases = rules
    .filter((rule) => isChecked(rule) && !rule.enum)
    .flatMap((rule) =>
      fc
        .sample(textsFor(rule), SAMPLES)
        .filter((text) => isWithin(rule, text) && (rule.type === 'string' || NUMBER.test(text)))
        .filter((text) => !/[\r\n]/.test(text)) // a field of one line removes them
        .map((text): Case => ({ attributes: attributesOf(rule), text, isAccepted: accepts(rule, text) })),
    )
  expect(cases.length).toBeGreaterThan(1_000)
  const browser = await launchBrowser()
  try {
    const page = await browser.newPage()
    const differing = await page.evaluate((all) => {
      const document = (globalThis as any).document
      return all.filter(({ attributes, text, isAccepted }) => {
        const input = document.createElement('input')
        for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value)
        input.value = text
        return input.checkValidity() !== isAccepted
      })
    }, cases)
    expect(differing.slice(0, 5)).toEqual([])
  } finally {
    await browser.close()
  }
})
