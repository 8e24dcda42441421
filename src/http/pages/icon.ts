/** The icon of the sign-in page and the browser tab: three floors of one house, each with its own tenant. */
export const ICON_SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48" aria-hidden="true" focusable="false">
<rect width="48" height="48" rx="12" fill="#4338ca"/>
<rect x="11" y="11" width="26" height="7" rx="2.5" fill="#fff"/>
<rect x="11" y="20.5" width="16" height="7" rx="2.5" fill="#a5b4fc"/>
<rect x="29.5" y="20.5" width="7.5" height="7" rx="2.5" fill="#fff"/>
<rect x="11" y="30" width="7.5" height="7" rx="2.5" fill="#fff"/>
<rect x="21" y="30" width="16" height="7" rx="2.5" fill="#a5b4fc"/>
</svg>`

/** Without its own icon a page requests /favicon.ico, which belongs to the host. */
export const ICON_URL = `data:image/svg+xml,${encodeURIComponent(ICON_SVG)}`
