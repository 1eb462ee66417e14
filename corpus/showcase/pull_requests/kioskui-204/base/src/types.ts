export interface MenuItem {
  id: string;
  name: string;
  /** Written by the canteen team in the menu editor. */
  description: string;
  priceCents: number;
  allergens: string[];
}

export interface CartLine {
  item: MenuItem;
  quantity: number;
}

export interface OrderReceipt {
  id: string;
  number: number;
}
