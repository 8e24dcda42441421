/** An operator who uses the console with the keyboard only, or with the mouse only. Keys and clicks are counted, typed text is not. */
import type { Locator, Page } from 'playwright-core'
import { expect } from 'vitest'
import { TASKS, type TaskName } from './tasks.ts'

export type Device = 'keyboard' | 'mouse'

export class Operator {
  readonly device: Device
  readonly page: Page
  #count = 0

  constructor(page: Page, device: Device) {
    this.page = page
    this.device = device
  }

  /** Presses the keys, or clicks the control. */
  async use(keys: readonly string[], control: Locator): Promise<void> {
    if (this.device === 'mouse') return this.#click(control)
    for (const key of keys) await this.#press(key)
  }

  /** Keys that the mouse has no counterpart of. */
  async press(...keys: readonly string[]): Promise<void> {
    if (this.device === 'mouse') return
    for (const key of keys) await this.#press(key)
  }

  /** Clicks that the keyboard has no counterpart of. */
  async click(...controls: readonly Locator[]): Promise<void> {
    if (this.device === 'keyboard') return
    for (const control of controls) await this.#click(control)
  }

  /** Opens the palette, and chooses the first entry for a text. */
  async choose(query: string, entry: RegExp): Promise<void> {
    await this.use(['Control+k'], this.page.getByRole('button', { name: /^Search/ }))
    const palette = this.page.getByRole('dialog', { name: 'Search and commands' })
    await palette.getByRole('combobox').waitFor()
    await this.type(query)
    const first = palette
      .getByRole('option')
      .first()
      .and(palette.getByRole('option', { name: entry }))
    await first.and(palette.locator('[data-highlighted]')).waitFor()
    await this.use(['Enter'], first)
  }

  /** Text for the field that has the focus. */
  async type(text: string): Promise<void> {
    await this.page.locator(':is(input, textarea, select):focus').waitFor({ state: 'attached' })
    await this.page.keyboard.type(text)
  }

  /** The operator has finished a task, and begins the next one. */
  finish(task: TaskName): void {
    const { keys, clicks } = TASKS[task]
    expect(this.#count, `${this.device} for ${task}`).toBe(this.device === 'keyboard' ? keys : clicks)
    this.#count = 0
  }

  async #press(key: string): Promise<void> {
    this.#count++
    await this.page.keyboard.press(key)
  }

  async #click(control: Locator): Promise<void> {
    this.#count++
    await control.click()
  }
}
