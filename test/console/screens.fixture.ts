/**
 * Checks of every screen of a module: accessibility, messages, policy, title, and no sideways scrolling, in both themes and three widths;
 * no sideways scrolling from right to left, and with texts of a longer language.
 */
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { axeViolations, type OpenedConsole, STEP_LIMIT_MS, WIDTHS } from './console.fixture.ts'

/**
 * An address, and a text that the screen shows when its data has arrived. A function gives an address that is known
 * after the set-up. `expected` are messages that the data causes.
 */
export type ScreenCase = readonly [path: string | (() => string), shown: string | RegExp, expected?: RegExp]

const THEMES = ['light', 'dark'] as const

/** Declares one test for each screen: the page is opened once, and changes its theme and width. */
export function describeScreens(opened: () => OpenedConsole, screens: readonly ScreenCase[]): void {
  test.each(
    screens.map(
      ([path, shown, expected]) => [typeof path === 'string' ? path : `of "${shown}"`, path, shown, expected] as const,
    ),
  )(
    'the screen %s has no accessibility violation and no message, in both themes and three widths',
    { timeout: 8 * STEP_LIMIT_MS },
    async (_name, address, shown, expected) => {
      await using console = await opened().open(typeof address === 'string' ? address : address())
      const { page } = console
      await page.locator('main').getByText(shown).filter({ visible: true }).first().waitFor()
      await page.waitForLoadState('networkidle')
      await page.locator('.skeleton').first().waitFor({ state: 'detached' })
      for (const colorScheme of THEMES) {
        await page.emulateMedia({ colorScheme })
        for (const [width, height] of Object.entries(WIDTHS)) {
          await page.setViewportSize({ width: Number(width), height })
          await animationsEnded(page)
          const display = `${colorScheme}, ${width} px`
          expect(await axeViolations(page), display).toEqual([])
          expect(await page.locator('h1').count(), display).toBe(1)
          expect(await page.title(), display).toContain('Tenantry')
          expect(await wideElements(page), display).toEqual([])
        }
      }
      for (const [width, height] of Object.entries(WIDTHS)) {
        await page.setViewportSize({ width: Number(width), height })
        await page.evaluate(`document.documentElement.dir = 'rtl'`)
        expect(await wideElements(page), `from right to left, ${width} px`).toEqual([])
        await page.evaluate(`document.documentElement.dir = 'ltr'`)
      }
      await page.evaluate(LONGER_TEXTS)
      for (const [width, height] of Object.entries(WIDTHS)) {
        await page.setViewportSize({ width: Number(width), height })
        expect(await wideElements(page), `longer texts, ${width} px`).toEqual([])
      }
      if (expected) console.expect(expected)
      expect(console.complaints).toEqual([])
    },
  )
}

/** Contrast is measured between the colors of a theme, not in between two themes. */
const animationsEnded = (page: Page) =>
  page.evaluate('Promise.allSettled(document.getAnimations().map(({ finished }) => finished))')

/** As in German or Finnish: labels are half as long again. */
const LONGER_TEXTS = `for (const element of document.querySelectorAll('button, label, th, dt, h1, h2, h3, nav a')) {
  const text = [...element.childNodes].find(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim())
  if (text) text.data += ' ' + 'x'.repeat(Math.ceil(text.data.length / 2))
}`

/** Elements that make the page scroll sideways, the widest first; without those in a region that scrolls itself. */
const wideElements = (page: Page) => page.evaluate(`(${WIDE})()`)
const WIDE = `() => {
  if (document.documentElement.scrollWidth <= innerWidth) return []
  const isClipped = (element) =>
    element !== document.body && (getComputedStyle(element).overflowX !== 'visible' || isClipped(element.parentElement))
  return [...document.querySelectorAll('body *')]
    .map((element) => [element, element.getBoundingClientRect()])
    .filter(([element, { left, right }]) => (right > innerWidth || left < 0) && !isClipped(element.parentElement))
    .toSorted(([, a], [, b]) => b.right - b.left - a.right + a.left)
    .map(([element, { left, right }]) => Math.round(left) + ' to ' + Math.round(right) + ': ' + element.outerHTML.slice(0, 120))
}`

/** Opens a menu and selects an entry. */
export async function selectInMenu(page: Page, button: string, entry: string): Promise<void> {
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('menuitem', { name: entry }).click()
}
