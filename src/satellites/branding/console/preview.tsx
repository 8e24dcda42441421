/**
 * Preview of branding in a closed shadow root. The input is hostile: names are text nodes, colours are checked, the style sheet is a
 * constructed one. `contain: strict` keeps `position: fixed` in the box, and the policy of the page loads no address. `inert` keeps the focus
 * and screen readers out, for which the box has a name.
 */
import { useEffect, useRef } from 'react'
import { Section } from '../../../console/components/base/page.tsx'
import { isColour } from './contrast.ts'
import { text } from './text.ts'

type Values = Readonly<Record<string, unknown>>

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const nameOf = ({ displayName }: Values): string => textOf(displayName).trim() || text.sampleName

export function Preview({ values }: { values: Values }) {
  const box = useRef<HTMLDivElement>(null)
  const root = useRef<ShadowRoot>(undefined)
  useEffect(() => {
    if (!box.current) return
    root.current ??= box.current.attachShadow({ mode: 'closed' })
    root.current.replaceChildren(samplePage(values))
    root.current.adoptedStyleSheets = [sheetOf(baseStyle(values)), sheetOf(textOf(values.customCss))]
  }, [values])
  return (
    <Section title={text.preview}>
      <p className="faint">{text.previewHint}</p>
      <div className="branding-preview" role="img" aria-label={text.previewLabel(nameOf(values))}>
        <div ref={box} inert />
      </div>
    </Section>
  )
}

/** Invalid rules are ignored, as in a `<style>` element. */
function sheetOf(css: string): CSSStyleSheet {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(css)
  return sheet
}

const baseStyle = ({ primaryColor, accentColor }: Values): string => `
  :host { display: block; height: 100%; overflow: hidden; background: #ffffff; color: #1b1c22; font: 14px/20px system-ui, sans-serif; }
  header { display: flex; align-items: center; gap: 12px; padding: 12px 16px; background: ${isColour(primaryColor) ? primaryColor : '#3b3f51'}; color: #ffffff; font-weight: 600; }
  .logo { padding: 2px 8px; border: 1px dashed currentColor; border-radius: 4px; font-size: 12px; font-weight: 400; }
  .name { min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
  main { padding: 20px 16px; }
  h1 { margin: 0 0 8px; font-size: 20px; line-height: 28px; overflow-wrap: anywhere; }
  p { margin: 0 0 12px; }
  a { color: ${isColour(accentColor) ? accentColor : '#3b3f51'}; }
  button { padding: 8px 16px; border: 0; border-radius: 6px; background: ${isColour(primaryColor) ? primaryColor : '#3b3f51'}; color: #ffffff; font: inherit; }
  footer { padding: 12px 16px; border-top: 1px solid #e3e4ea; color: #5b5e6b; font-size: 12px; overflow-wrap: anywhere; }`

function samplePage(values: Values): DocumentFragment {
  const page = document.createDocumentFragment()
  const name = nameOf(values)
  const logo = textOf(values.logoUrl) ? [element('span', text.sampleLogo, 'logo')] : []
  const contact = [values.supportEmail, values.supportUrl].map(textOf).filter(Boolean)
  page.append(
    element('header', [...logo, element('span', name, 'name')]),
    element('main', [
      element('h1', text.sampleHeading(name)),
      element('p', [text.sampleText, ' ', link(text.sampleLink)]),
      element('button', text.sampleButton),
    ]),
    element('footer', contact.length > 0 ? contact.join(' · ') : name),
  )
  return page
}

function element(tag: string, content: string | readonly (Node | string)[], className = ''): HTMLElement {
  const made = document.createElement(tag)
  if (className) made.className = className
  made.append(...(typeof content === 'string' ? [content] : content))
  return made
}

function link(title: string): HTMLElement {
  const made = element('a', title)
  made.setAttribute('href', '#')
  return made
}
