/** Checks of every screen of a module: accessibility, messages, policy, title, and no sideways scrolling, in both themes and three widths. */
import { describe, expect, test } from 'vitest'
import { axeViolations, type OpenedConsole, STEP_LIMIT_MS } from './console.fixture.ts'

/** @param heading text of the `<h1>` @param ready text that is shown once the data is loaded */
export type ScreenCase = readonly [path: string, heading: string, ready: string | RegExp]

/** Declares the tests. @param opened called when a test runs */
export function describeScreens(opened: () => OpenedConsole, screens: () => readonly ScreenCase[]): void {
  describe.each(['light', 'dark'] as const)('in the %s theme', (colorScheme) => {
    test.each([1440, 1024, 390] as const)(
      '%i px wide, every screen has no accessibility violation and no message',
      { timeout: 12 * STEP_LIMIT_MS },
      async (width) => {
        await using console = await opened().open('/system', { colorScheme, width })
        const { page } = console
        const base = page.url().replace(/\/system$/, '')
        for (const [path, heading, ready] of screens()) {
          await page.goto(`${base}${path}`)
          await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
          await page.locator('main').getByText(ready).filter({ visible: true }).first().waitFor()
          await page.waitForLoadState('networkidle')
          expect(await axeViolations(page), path).toEqual([])
          expect(await page.locator('h1').count(), path).toBe(1)
          expect(await page.title(), path).toContain('Tenantry')
          expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), path).toBe(true)
        }
        expect(console.complaints).toEqual([])
      },
    )
  })
}
