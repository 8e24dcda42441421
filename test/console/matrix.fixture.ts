/** Shared tests of screens: both themes and three widths, without an accessibility violation, a message, or a sideways scroll. */

import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { axeViolations, type OpenedConsole, STEP_LIMIT_MS } from './console.fixture.ts'

/** An address, and a text that it shows when its data has arrived. A function gives an address that is known after the set-up. */
export type ScreenCase = readonly [path: string | (() => string), shown: string]

/** @param folder also writes a picture of each case to this folder, for review */
export function describeScreens(
  opened: () => OpenedConsole,
  screens: readonly ScreenCase[],
  folder = process.env.CONSOLE_SHOTS,
): void {
  describe.each(['light', 'dark'] as const)('in the %s theme', (colorScheme) => {
    describe.each([1440, 1024, 390] as const)('%i px wide', (width) => {
      test.each(screens.map(([path, shown]) => [shown, path] as const))(
        'the screen with "%s" has no violation and no message',
        { timeout: 4 * STEP_LIMIT_MS },
        async (shown, address) => {
          const path = typeof address === 'string' ? address : address()
          await using console = await opened().open(path, { colorScheme, width })
          const { page } = console
          await page.getByText(shown).filter({ visible: true }).first().waitFor()
          if (folder) {
            const name = `${path.replaceAll(/\W+/g, '-')}-${colorScheme}-${width}.png`
            await page.screenshot({ path: `${folder}/${name}` })
          }
          expect(await axeViolations(page)).toEqual([])
          expect(await page.locator('h1').count()).toBe(1)
          expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
          expect(console.complaints).toEqual([])
        },
      )
    })
  })
}

/** Opens a menu and selects an entry. */
export async function selectInMenu(page: Page, button: string, entry: string): Promise<void> {
  await page.getByRole('button', { name: button }).click()
  await page.getByRole('menuitem', { name: entry }).click()
}
